/**
 * Writes `dist/types`: the declarations of each entry point of the library in one file, which needs
 * no other package. Types of the contract, which are derived from schemas, are written out. Run
 * after `tsc -b`.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { generateDtsBundle } from "dts-bundle-generator";
import ts from "typescript";
import { writeFolder } from "./write-folder.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const DRAFTS = `${ROOT}dist/declarations`;

/** Declaration files written by `tsc -b`, by the name of the bundle made from each of them. */
const ENTRIES = {
  index: "dist/library/entries/index.d.ts",
  client: "dist/client/entry.d.ts",
  jobs: "dist/library/entries/jobs.d.ts",
  kv: "dist/library/entries/kv.d.ts",
  "kv-conformance": "dist/library/entries/kv-conformance.d.ts",
};

const OPTIONS = {
  target: ts.ScriptTarget.ES2022,
  lib: ["lib.es2023.d.ts", "lib.dom.d.ts", "lib.dom.iterable.d.ts"],
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  allowImportingTsExtensions: true,
  exactOptionalPropertyTypes: true,
  noEmit: true,
  skipLibCheck: true,
  strict: true,
  types: [],
};

/** Matches a type that is derived from a constant. */
const DERIVED = /\btypeof\b/;
/** Matches the declaration of a schema, from which types are derived. */
const SCHEMA = /: import\("@sinclair\/typebox"\)/;

writeFolder(`${ROOT}dist/types`, bundleDeclarations());

/** Returns the files as `[name, text]`. */
function bundleDeclarations() {
  mkdirSync(DRAFTS, { recursive: true });
  const names = Object.keys(ENTRIES);
  const drafts = bundle(Object.values(ENTRIES).map((file) => `${ROOT}${file}`)).map(
    (text, index) => {
      const file = `${DRAFTS}/${names[index]}.d.ts`;
      writeFileSync(file, text);
      return file;
    },
  );
  const program = ts.createProgram(drafts, OPTIONS);
  for (const file of drafts) writeFileSync(file, withoutSchemas(program, file));
  // Bundle again, to drop the declarations that only the schemas used.
  return bundle(drafts).map((text, index) => [`${names[index]}.d.ts`, text]);
}

function bundle(files) {
  const config = `${DRAFTS}/tsconfig.json`;
  const compilerOptions = {
    ...OPTIONS,
    target: "es2022",
    lib: ["es2023", "dom", "dom.iterable"],
    module: "nodenext",
    moduleResolution: "nodenext",
  };
  writeFileSync(config, JSON.stringify({ compilerOptions, files }));
  const entries = files.map((filePath) => ({
    filePath,
    libraries: { inlinedLibraries: [], importedLibraries: [] },
    output: { noBanner: true, sortNodes: true, exportReferencedTypes: false },
  }));
  return generateDtsBundle(entries, { preferredConfigPath: config });
}

function withoutSchemas(program, file) {
  const source = program.getSourceFile(file);
  const checker = program.getTypeChecker();
  const text = readFileSync(file, "utf8");
  const edits = [];
  for (const statement of source.statements) {
    if (ts.isVariableStatement(statement) && SCHEMA.test(statement.getText(source))) {
      edits.push([statement.getFullStart(), statement.getEnd(), ""]);
    }
    if (!ts.isTypeAliasDeclaration(statement) || statement.typeParameters !== undefined) continue;
    const { type } = statement;
    const written = type.getText(source);
    if (!DERIVED.test(written) && !/^Shape</.test(written)) continue;
    const node = checker.typeToTypeNode(
      checker.getTypeFromTypeNode(type),
      statement,
      ts.NodeBuilderFlags.NoTruncation | ts.NodeBuilderFlags.InTypeAlias,
    );
    const printer = ts.createPrinter();
    const printed = printer.printNode(ts.EmitHint.Unspecified, node, source);
    edits.push([type.getStart(source), type.getEnd(), printed]);
  }
  return edits
    .toReversed()
    .reduce(
      (result, [start, end, added]) => result.slice(0, start) + added + result.slice(end),
      text,
    );
}
