/** Delivery of alerts. */
import type { AlertDelivery } from "../../contract/index.ts";
import { get, request } from "./request.ts";

export function readAlertDelivery(signal: AbortSignal): Promise<AlertDelivery> {
  return get<AlertDelivery>("_tandem/alerts", signal);
}

/** Sends a test alert. Throws a RequestError if the receiver does not accept it. */
export async function sendTestAlert(): Promise<void> {
  await request("POST", "_tandem/alerts/_test");
}
