/**
 * A server that exists but accepts no connections: its accept queue is full, and its process is
 * stopped. After SIGCONT, it forwards connections to the given port. It prints its own port.
 *
 * node black-hole.mjs PORT
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
