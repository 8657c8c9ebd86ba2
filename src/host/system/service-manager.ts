/**
 * Tells the service manager that started this process how far it is, as systemd's `Type=notify` wants it (sd_notify(3)). Node.js has no
 * datagram sockets of the local kind, so systemd's own program sends the message; the unit needs `NotifyAccess=all`.
 */
import { execFile } from "node:child_process";

export type ServiceState = "READY=1" | "STOPPING=1";

/** Calls back when the message could not be sent. */
export type NotifyServiceManager = (state: ServiceState, onError: (error: Error) => void) => void;

/**
 * What tells the service manager that `environment` names; does nothing where it names none. Takes the name out of `environment`, so
 * that processes which this one starts do not speak for it.
 */
export function notifierOf(environment: Record<string, string | undefined>): NotifyServiceManager {
  const { NOTIFY_SOCKET } = environment;
  if (NOTIFY_SOCKET === undefined) return () => {};
  delete environment.NOTIFY_SOCKET;
  const env = { ...environment, NOTIFY_SOCKET };
  return (state, onError) => {
    execFile("systemd-notify", [state], { env }, (error) => {
      if (error !== null) onError(error);
    });
  };
}
