/**
 * Checks from its first two pages whether a store's file is complete. LMDB maps the file without
 * checking it: a damaged or truncated file crashes the process, and an empty file is treated as a
 * new store.
 *
 * The first two pages contain the roots of the last two transactions. A healthy file can end before
 * its last page, because pages that were allocated and freed again are never written. Such pages
 * are on the free list, a separate tree: transaction → count and page numbers. A truncated file can
 * therefore not be detected from the file's size. A header with magic number, version and checksum
 * would not detect it, either. `test/kv/lmdb-damaged-files.test.ts` has healthy and truncated
 * files.
 */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { endianness } from "node:os";

const MAGIC = 0xbeefc0de;
const DATA_VERSION = 2;
const ROOT_COUNT = 2;
const PAGE_BYTES_MIN = 256;
const PAGE_BYTES_MAX = 65_536;

const HEAD_BYTES = 24;
/** End of the last field read from a root page. */
const ROOT_END = 160;
const NODE_HEAD_BYTES = 8;
const IS_BRANCH = 0x01;
/** Node flag: the value is in overflow pages. */
const IS_LARGE = 0x01;
/** Root page number of an empty tree. */
const NO_PAGE = 2n ** 64n - 1n;

/** Number of attempts, because the file can be written to during an attempt. */
const ATTEMPT_COUNT = 5;

const IS_LITTLE_ENDIAN = endianness() === "LE";
/** Whether LMDB has the 64-bit layout, the only one that is checked. */
const HAS_64_BITS = !["arm", "ia32", "mips", "mipsel", "ppc", "s390"].includes(process.arch);

/** Returns a description of the damage if the file is certainly damaged, otherwise `undefined`. */
export function faultOfFile(file: string): string | undefined {
  if (!HAS_64_BITS) return undefined;
  const descriptor = openSync(file, "r");
  try {
    for (let attempt = 0; attempt < ATTEMPT_COUNT; attempt++) {
      const roots = readRoots(descriptor);
      const fault = faultOf(descriptor, roots);
      if (fault === undefined) return undefined;
      // If the roots have changed, the fault can be due to pages that a concurrent commit reused:
      // checks again.
      if (sameBytes(roots, readRoots(descriptor))) return fault;
    }
    return undefined;
  } finally {
    closeSync(descriptor);
  }
}

interface Tree {
  readonly rootPage: bigint;
  readonly pageCount: number;
}

interface Root {
  readonly pageBytes: number;
  readonly transaction: bigint;
  readonly pageCount: number;
  readonly free: Tree & { readonly depth: number };
  readonly main: Tree;
}

function faultOf(file: number, views: readonly DataView[]): string | undefined {
  const byteCount = fstatSync(file).size;
  if (byteCount === 0) return "the file is empty";
  const [first, second] = views.map(readRoot);
  if (first === undefined || second === undefined || first.pageBytes !== second.pageBytes) {
    return "the first pages are damaged";
  }
  const root = first.transaction > second.transaction ? first : second;
  if (isLongEnough(file, root, byteCount)) return undefined;
  return `the file has ${byteCount} of ${root.pageCount * root.pageBytes} bytes`;
}

/** Whether the file is long enough to contain all pages in use. */
function isLongEnough(file: number, root: Root, byteCount: number): boolean {
  const { pageBytes, pageCount, free, main } = root;
  if (byteCount >= pageCount * pageBytes) return true;
  const endPage = BigInt(Math.floor(byteCount / pageBytes));
  const isBeyond = ({ rootPage }: Tree): boolean => rootPage !== NO_PAGE && rootPage >= endPage;
  if (isBeyond(free) || isBeyond(main)) return false;
  const freePages = readFreePages({ file, pageBytes, endPage }, free);
  if (freePages === undefined) return false;
  const freeCount = freePages.filter((page) => page < endPage).length;
  return ROOT_COUNT + free.pageCount + main.pageCount + freeCount <= Number(endPage);
}

function readRoots(file: number): readonly DataView[] {
  const first = readPart(file, 0, ROOT_END);
  const pageBytes = readRoot(first)?.pageBytes ?? 0;
  return [first, readPart(file, pageBytes, ROOT_END)];
}

function readRoot(view: DataView): Root | undefined {
  if (view.byteLength < ROOT_END) return undefined;
  const count = (at: number): number => Number(view.getBigUint64(at, IS_LITTLE_ENDIAN));
  const treeAt = (at: number): Tree => ({
    rootPage: view.getBigUint64(at + 40, IS_LITTLE_ENDIAN),
    pageCount: count(at + 8) + count(at + 16) + count(at + 24),
  });
  const pageBytes = view.getUint32(48, IS_LITTLE_ENDIAN);
  const isRoot =
    view.getUint32(24, IS_LITTLE_ENDIAN) === MAGIC &&
    (view.getUint32(28, IS_LITTLE_ENDIAN) & 0xffff) === DATA_VERSION &&
    pageBytes >= PAGE_BYTES_MIN &&
    pageBytes <= PAGE_BYTES_MAX;
  if (!isRoot) return undefined;
  return {
    pageBytes,
    free: { ...treeAt(48), depth: view.getUint16(54, IS_LITTLE_ENDIAN) },
    main: treeAt(96),
    pageCount: count(144) + 1,
    transaction: view.getBigUint64(152, IS_LITTLE_ENDIAN),
  };
}

interface PagePlace {
  readonly file: number;
  readonly pageBytes: number;
  /** The first page that is not completely in the file. */
  readonly endPage: bigint;
}

/** Returns the free pages, or `undefined` if the free list itself is incomplete. */
function readFreePages(place: PagePlace, { rootPage, depth }: Root["free"]): bigint[] | undefined {
  if (rootPage === NO_PAGE) return [];
  try {
    return [...freePagesBelow(place, rootPage, depth)];
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/**
 * Yields the free pages listed below a page of the tree. Throws a RangeError if a page is past the
 * end of the file, or not part of a tree.
 */
function* freePagesBelow(place: PagePlace, page: bigint, depth: number): Iterable<bigint> {
  if (depth === 0) throw new RangeError("The tree must not be deeper than recorded in its root");
  const view = readPage(place, page, place.pageBytes);
  const isBranch = (view.getUint16(18, IS_LITTLE_ENDIAN) & IS_BRANCH) !== 0;
  const nodeCount = view.getUint16(20, IS_LITTLE_ENDIAN) / 2;
  for (let number = 0; number < nodeCount; number++) {
    const at = HEAD_BYTES + view.getUint16(HEAD_BYTES + 2 * number, IS_LITTLE_ENDIAN);
    const word = (index: number): number => view.getUint16(at + 2 * index, IS_LITTLE_ENDIAN);
    const low = word(0) + word(1) * 2 ** 16;
    if (isBranch) {
      yield* freePagesBelow(place, BigInt(low) + (BigInt(word(2)) << 32n), depth - 1);
      continue;
    }
    const valueAt = at + NODE_HEAD_BYTES + word(3);
    if ((word(2) & IS_LARGE) === 0) yield* pageNumbers(view, valueAt);
    else {
      const valuePage = view.getBigUint64(valueAt, IS_LITTLE_ENDIAN);
      yield* pageNumbers(readPage(place, valuePage, HEAD_BYTES + low), HEAD_BYTES);
    }
  }
}

/** Reads a count, followed by that many page numbers. */
function* pageNumbers(view: DataView, at: number): Iterable<bigint> {
  const count = Number(view.getBigUint64(at, IS_LITTLE_ENDIAN));
  for (let number = 1; number <= count; number++) {
    yield view.getBigUint64(at + 8 * number, IS_LITTLE_ENDIAN);
  }
}

function readPage({ file, pageBytes, endPage }: PagePlace, page: bigint, byteCount: number) {
  if (page >= endPage) throw new RangeError("The page must be within the file");
  return readPart(file, Number(page) * pageBytes, byteCount);
}

/** Reads a part of the file. Returns fewer bytes at the end of the file. */
function readPart(file: number, position: number, byteCount: number): DataView {
  const bytes = new Uint8Array(byteCount);
  return new DataView(bytes.buffer, 0, readSync(file, bytes, 0, byteCount, position));
}

function sameBytes(left: readonly DataView[], right: readonly DataView[]): boolean {
  const textOf = (views: readonly DataView[]): string =>
    views.map((view) => Buffer.from(view.buffer).toString("latin1")).join();
  return textOf(left) === textOf(right);
}
