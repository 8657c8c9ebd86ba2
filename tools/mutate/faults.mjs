/** Seeded faults: one changed operator, condition, number or statement in a file of `src/`. */
import { createHash } from "node:crypto";
import ts from "typescript";

const { SyntaxKind } = ts;

/** Operators, each with the operator that is most easily confused with it. */
const OPERATORS = new Map([
  [SyntaxKind.LessThanToken, "<="],
  [SyntaxKind.LessThanEqualsToken, "<"],
  [SyntaxKind.GreaterThanToken, ">="],
  [SyntaxKind.GreaterThanEqualsToken, ">"],
  [SyntaxKind.EqualsEqualsEqualsToken, "!=="],
  [SyntaxKind.ExclamationEqualsEqualsToken, "==="],
  [SyntaxKind.MinusToken, "+"],
]);
const LOGICAL = new Set([SyntaxKind.AmpersandAmpersandToken, SyntaxKind.BarBarToken]);
const METHODS = new Map([
  ["some", "every"],
  ["every", "some"],
  ["min", "max"],
  ["max", "min"],
  ["startsWith", "endsWith"],
]);
/**
 * Statements whose effects need no tests: messages, measurements, assertions, size estimates, and
 * the release of timers and listeners that would end with their owner anyway.
 */
const UNCHECKED =
  /\b(trace\.event|assert\w*|stderr\.write|log\.\w+|metrics|span|learn|unref|watch\.cancel|clearTimeout|clearInterval|removeEventListener|yielder|markResourceTiming)\b/;
/**
 * Names of limits, page sizes, pauses and other numbers for which a difference of one is harmless.
 */
const TUNING = /^#?([A-Z][A-Z0-9_]*|\w*(Ms|Sec|Bytes|Max|Min|Factor|Share|Limit|Rows|Size))$/;

/** Returns all faults of a source text, in source order. */
export function faultsOf(path, text) {
  const kind = path.endsWith("x") ? ts.ScriptKind.TSX : ts.ScriptKind.TS;
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.ES2022, true, kind);
  const faults = [];
  const add = (rule, node, replacement, from = node.getStart(source), to = node.end) => {
    const { line } = source.getLineAndCharacterOfPosition(from);
    const near = text.slice(Math.max(0, from - 40), to + 40);
    const changed = text.slice(from, to);
    faults.push({ path, rule, from, to, line: line + 1, text: changed, replacement, near });
  };
  const visit = (node) => {
    if (ts.isTypeNode(node) || ts.isImportDeclaration(node)) return;
    if (ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node)) return;
    if (ts.isExpressionStatement(node) && UNCHECKED.test(node.getText(source))) return;
    propose(node, source, add);
    ts.forEachChild(node, visit);
  };
  visit(source);
  return faults;
}

function propose(node, source, add) {
  if (ts.isBinaryExpression(node)) {
    const { left, operatorToken, right } = node;
    const other = OPERATORS.get(operatorToken.kind);
    if (other !== undefined) add("operator", operatorToken, other);
    if (LOGICAL.has(operatorToken.kind)) {
      add("left side dropped", node, right.getText(source), left.getStart(source));
      add("right side dropped", node, left.getText(source));
    }
  } else if (ts.isIfStatement(node)) {
    add("condition always false", node.expression, "false");
  } else if (ts.isConditionalExpression(node)) {
    add("condition always true", node.condition, "true");
  } else if (ts.isPrefixUnaryExpression(node) && node.operator === SyntaxKind.ExclamationToken) {
    add("negation dropped", node, node.operand.getText(source));
  } else if (node.kind === SyntaxKind.TrueKeyword || node.kind === SyntaxKind.FalseKeyword) {
    add("flag", node, String(node.kind === SyntaxKind.FalseKeyword));
  } else if (ts.isNumericLiteral(node) && /^\d$/.test(node.text) && !isTuning(node)) {
    add("off by one", node, String(Number(node.text) + 1));
  } else if (ts.isExpressionStatement(node) && effect(node.expression)) {
    add("statement removed", node, ";");
  } else if (ts.isThrowStatement(node)) {
    add("throw removed", node, ";");
  } else if (ts.isPropertyAccessExpression(node) && ts.isCallExpression(node.parent)) {
    const other = METHODS.get(node.name.text);
    if (other !== undefined && node.parent.expression === node) add("method", node.name, other);
  }
}

/**
 * Whether a number, perhaps within a calculation, is the value of an enumeration member, or of a
 * constant or member matching `TUNING`.
 */
function isTuning(node) {
  let { parent } = node;
  while (ts.isBinaryExpression(parent) || ts.isParenthesizedExpression(parent))
    parent = parent.parent;
  if (ts.isEnumMember(parent)) return true;
  const isValue =
    ts.isVariableDeclaration(parent) ||
    ts.isPropertyDeclaration(parent) ||
    ts.isPropertyAssignment(parent) ||
    ts.isParameter(parent);
  return isValue && TUNING.test(parent.name.getText());
}

/**
 * Whether an expression is evaluated for its side effect: a call, or an assignment outside a
 * constructor.
 */
function effect(expression) {
  if (ts.isAwaitExpression(expression)) return effect(expression.expression);
  if (ts.isCallExpression(expression))
    return expression.expression.kind !== SyntaxKind.SuperKeyword;
  return ts.isPostfixUnaryExpression(expression) || ts.isDeleteExpression(expression);
}

/**
 * Selects `count` faults. Each folder contributes faults in proportion to the square root of its
 * number of faults. The order within a folder is that of a hash of the seed and the fault itself,
 * so that changes elsewhere do not affect the selection.
 */
export function drawFaults(faults, count, seed) {
  const folders = groups(faults);
  const weights = [...folders].map(([folder, all]) => [folder, Math.sqrt(all.length)]);
  const sum = weights.reduce((total, [, weight]) => total + weight, 0);
  const drawn = weights.flatMap(([folder, weight]) => {
    const placed = folders.get(folder).map((fault) => ({ fault, place: placeOf(fault, seed) }));
    const ordered = inOrder(placed);
    return ordered.slice(0, Math.ceil((count * weight) / sum));
  });
  // The folders are mixed, so that the first faults are a representative sample.
  return inOrder(drawn).map(({ fault }) => fault);
}

function inOrder(placed) {
  return placed.sort((a, b) => (a.place < b.place ? -1 : 1));
}

function groups(faults) {
  const folders = new Map();
  for (const fault of faults) {
    const [, folder] = fault.path.split("/");
    if (!folders.has(folder)) folders.set(folder, []);
    folders.get(folder).push(fault);
  }
  return folders;
}

function placeOf({ path, rule, text, replacement, near }, seed) {
  const name = [seed, path, rule, text, replacement, near].join("\n");
  return createHash("sha256").update(name).digest("hex");
}
