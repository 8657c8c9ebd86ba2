/**
 * A server that is there and takes no connection: its line of those that wait to be accepted is full, and it does not run. Continued with
 * SIGCONT, it hands connections on to the port that it was started for. Prints its own port.
 *
 *   node black-hole.mjs PORT
 */
import { connect, createServer } from "node:net";

const port = Number(process.argv[2]);
const server = createServer((socket) => {
  const behind = connect({ port, host: "127.0.0.1" });
  socket.pipe(behind).pipe(socket);
  for (const end of [socket, behind]) end.on("error", () => end.destroy());
});
server.listen({ port: 0, host: "127.0.0.1", backlog: 1 }, () => {
  process.stdout.write(`${server.address().port}\n`);
});
