/** Reads the first chunk of a stream without consuming it, to detect the format of the stream. */

export interface PeekedStream {
  /** First chunk that is not empty. */
  readonly first: Uint8Array;
  /** The stream from its first chunk. Ending it early also ends the original stream. */
  readonly whole: AsyncIterable<Uint8Array>;
}

/** Returns undefined if the stream has no bytes. */
export async function peekChunk(
  chunks: AsyncIterable<Uint8Array>,
): Promise<PeekedStream | undefined> {
  const pieces = chunks[Symbol.asyncIterator]();
  let next = await pieces.next();
  while (next.done !== true && next.value.length === 0) next = await pieces.next();
  if (next.done === true) return undefined;
  return { first: next.value, whole: startingWith(next.value, pieces) };
}

async function* startingWith(
  first: Uint8Array,
  rest: AsyncIterator<Uint8Array>,
): AsyncIterable<Uint8Array> {
  try {
    yield first;
    for (let next = await rest.next(); next.done !== true; next = await rest.next()) {
      yield next.value;
    }
  } finally {
    await rest.return?.();
  }
}
