/** `tandem alerts …`: the delivery of alerts, and test alerts. */
import type { Command } from "commander";
import type { AlertDelivery } from "../../contract/index.ts";
import { table } from "../terminal/table.ts";
import { answerWith } from "./answers.ts";
import type { ServerFlags } from "./server-client.ts";
import { askServer, withServer } from "./server-command.ts";

export function addAlertsCommand(program: Command): void {
  const alerts = program.command("alerts").description("show and test the delivery of alerts");
  withServer(alerts.command("status"))
    .description("show waiting and rejected alerts, and the last failure")
    .action((flags: ServerFlags) =>
      askServer(flags, async ({ alerts }) => [await alerts.get(), printDelivery]),
    );
  withServer(alerts.command("test"))
    .description("send a test alert, and wait until the receiver has accepted it")
    .action((flags: ServerFlags) =>
      askServer(flags, async (server) => [
        await server.alerts.test(),
        () => "the receiver has accepted the test alert\n",
      ]),
    );
}

function printDelivery(answer: unknown): string {
  const delivery = answerWith<AlertDelivery>(answer, { waiting: "number", rejected: "number" });
  const { waiting, rejected, last_sent: lastSent, failure } = delivery;
  const dropped = failure?.dropped === true ? " (dropped)" : "";
  const facts = [
    ["waiting", String(waiting)],
    ["rejected", String(rejected)],
    ["last sent", lastSent ?? "-"],
    ["last failure", failure === null ? "-" : `${failure.time}  ${failure.error}${dropped}`],
  ];
  return table(facts, { wrapsLast: true });
}
