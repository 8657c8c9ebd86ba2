/**
 * Process side of `remote-engine.ts`. It executes the calls that it receives on its own LMDB
 * engine. Runs built code.
 */
import { openLmdbEngine } from "../../../dist/host/lmdb/engine.js";
import { createSystemRuntime } from "../../../dist/host/system/runtime.js";

const engine = await openLmdbEngine({
  runtime: createSystemRuntime(),
  directory: String(process.argv[2]),
});
const transactions = new Map();
const watches = new Map();

process.on("message", (message) => {
  const { kind, transactionId, callId, method, parameters, snapshot } = message;
  const answer = (call) => {
    call.then(
      (value) => process.send?.({ callId, value }),
      (error) =>
        process.send?.({
          callId,
          error: { code: error.code, message: error.message, details: error.details },
        }),
    );
  };
  switch (kind) {
    case "begin":
      transactions.set(transactionId, engine.begin());
      return;
    case "write":
      transactions.get(transactionId).transaction[method](...parameters);
      return;
    case "read": {
      const { transaction } = transactions.get(transactionId);
      answer((snapshot ? transaction.snapshot : transaction)[method](...parameters));
      return;
    }
    case "watch":
      watches.set(message.watchId, transactions.get(transactionId).transaction.watch(message.key));
      return;
    case "fired":
      answer(watches.get(message.watchId).fired());
      return;
    case "cancel":
      watches.get(message.watchId).cancel();
      return;
    case "commit": {
      const attempt = transactions.get(transactionId);
      transactions.delete(transactionId);
      answer(attempt.commit().then(({ versionstamp }) => versionstamp?.bytes));
      return;
    }
    case "cancel-transaction":
      transactions.get(transactionId)?.cancel();
      transactions.delete(transactionId);
      return;
    case "close":
      engine.close().then(
        () => process.disconnect(),
        () => process.exit(1),
      );
  }
});
process.send?.({ ready: true });
