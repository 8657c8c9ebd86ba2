/**
 * Translates the update sequences of a Tandem into numbers, which CouchDB 1 and Sync Gateway use.
 */
import type { Forward, ProxiedAnswer, ProxiedRequest } from "../../support/faults/http-proxy.ts";

interface ChangesAnswer {
  readonly results: readonly { readonly seq: string; readonly id: string }[];
  readonly last_seq: string;
}

/** Update sequences of one database. A sequence's number is its place in the changes feed. */
export class NumberedSequences {
  /** The sequence with the number 1 has the index 0. */
  readonly #sequences: string[] = [];

  /** Assigns numbers to all changes so far, and returns the last number. */
  async refresh(database: string, request: ProxiedRequest, forward: Forward): Promise<number> {
    const since = encodeURIComponent(this.#sequences.at(-1) ?? "0");
    const path = `/${database}/_changes?since=${since}`;
    const answer = await forward({ ...request, method: "GET", path, body: Buffer.alloc(0) });
    const { results } = JSON.parse(String(answer.body)) as ChangesAnswer;
    for (const { seq } of results) this.#sequences.push(seq);
    return this.#sequences.length;
  }

  sequenceOf(number: string): string {
    return Number(number) === 0 ? "0" : (this.#sequences[Number(number) - 1] ?? "now");
  }

  numberOf(sequence: string): number {
    return this.#sequences.indexOf(sequence) + 1;
  }

  /** Forwards a request of the changes feed. Returns its rows and last number. */
  async changes(
    database: string,
    request: ProxiedRequest,
    forward: Forward,
  ): Promise<
    { readonly results: readonly { readonly id: string }[]; readonly last: number } | ProxiedAnswer
  > {
    const url = new URL(request.path, "http://localhost");
    await this.refresh(database, request, forward);
    url.searchParams.set("since", this.sequenceOf(url.searchParams.get("since") ?? "0"));
    const answer = await forward({ ...request, path: url.pathname + url.search });
    if (answer.status !== 200) return answer;
    const { results, last_seq: last } = JSON.parse(String(answer.body)) as ChangesAnswer;
    const newest = await this.refresh(database, request, forward);
    return {
      results: results.map((row) => ({ ...row, seq: this.numberOf(row.seq) })),
      last: this.numberOf(last) || newest,
    };
  }
}
