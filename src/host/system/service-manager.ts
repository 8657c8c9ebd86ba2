/**
 * Notifies the service manager of readiness, for systemd's `Type=notify` (sd_notify(3)). Node.js
 * lacks Unix datagram sockets, so systemd-notify sends the message; the unit needs
 * `NotifyAccess=all`.
 */
import { execFile } from "node:child_process";

export type ServiceState = "READY=1" | "STOPPING=1";

/** Tells the service manager the state. Calls `onError` if the message could not be sent. */
export type NotifyServiceManager = (state: ServiceState, onError: (error: Error) => void) => void;

/**
 * Returns a notifier for the service manager that `environment` names in `NOTIFY_SOCKET`, if any.
 * Removes this variable, so that child processes cannot notify on behalf of this process.
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
