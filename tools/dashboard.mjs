/**
 * Builds the dashboard, `dist/dashboard/`, from `src/dashboard/`: a page, and files whose names
 * contain a hash of their content. Each is also stored compressed, so that nodes need not compress
 * it.
 */
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { build } from "vite";
import { writeFolder } from "./write-folder.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** Minimum size for compression. A smaller file fits into one packet anyway. */
const COMPRESSED_BYTES_MIN = 1_400;

// Vite omits development checks only in this mode. A test runner might have set another one.
process.env.NODE_ENV = "production";

const { output } = await build({
  root: `${ROOT}src/dashboard`,
  configFile: false,
  // Relative, because a proxy can serve the node's API below any path.
  base: "./",
  logLevel: "warn",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    write: false,
    target: "es2022",
    // The content security policy forbids data: URLs.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // The dashboard needs constants and types of the contract, not its schemas.
    rolldownOptions: {
      treeshake: { moduleSideEffects: (id) => !/\/contract\/|\/typebox\//.test(id) },
    },
  },
});

writeFolder(
  `${ROOT}dist/dashboard`,
  output.flatMap((file) => {
    const bytes = Buffer.from(file.type === "chunk" ? file.code : file.source);
    const plain = [file.fileName, bytes];
    if (bytes.length < COMPRESSED_BYTES_MIN) return [plain];
    return [
      plain,
      [`${file.fileName}.gz`, gzipSync(bytes, { level: 9 })],
      [`${file.fileName}.br`, brotli(bytes)],
    ];
  }),
);

function brotli(bytes) {
  const params = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY };
  return brotliCompressSync(bytes, { params });
}
