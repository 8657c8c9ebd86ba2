/** Budgets for the server are added, changed and removed. */
import { errorCode } from "../../../../src/base/index.ts";
import type { SeededRandom } from "../../kernel/seeded-random.ts";
import { SERVER_HOST } from "../../network/simulated-server.ts";
import type { Workload } from "../../workload.ts";
import type { Scene } from "../scene.ts";

export class Spending implements Workload {
  readonly #scene: Scene;
  readonly #random: SeededRandom;
  #isOver = false;

  constructor(scene: Scene) {
    this.#scene = scene;
    this.#random = scene.random.fork("spending");
  }

  async start(untilMs: number): Promise<void> {
    const { world, client } = this.#scene;
    const random = this.#random;
    while (world.time.nowMs < untilMs) {
      const rates = () => ({
        ...(random.chance(0.5) ? { requests: random.pick([1, 5, 50]) } : {}),
        ...(random.chance(0.5) ? { documents: random.pick([2, 20]) } : {}),
        ...(random.chance(0.5) ? { bytes: random.pick([5000, 100_000]) } : {}),
      });
      const budget = random.chance(0.2) ? undefined : { read: rates(), write: rates() };
      await client.node.budgets.set(SERVER_HOST, budget).catch((error: unknown) => {
        if (!errorCode(error)?.startsWith("KV_")) throw error;
      });
      await client.node.runtime.clock.sleep(random.between(1000, 8000));
    }
  }

  async tend(): Promise<void> {
    if (!this.#isOver) await this.#scene.client.node.budgets.set(SERVER_HOST, undefined);
    this.#isOver = true;
  }
}
