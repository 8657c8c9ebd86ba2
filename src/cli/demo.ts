/**
 * `npm run demo`: prints a line before it loads the program, which takes seconds on a slow machine,
 * and runs the demo.
 */
process.stdout.write("Tandem's demo: starting a node on an embedded store in a temporary folder\n");
await import("./run-demo.ts");

export {};
