/** Replications with a malicious server. They may fail, but must have no other effect. */

import { HOSTILE_URL } from "../../network/hostile-server.ts";
import type { Workload } from "../../workload.ts";
import { jobOptions } from "../knobs.ts";
import { JOBS_DATABASE, type Scene } from "../scene.ts";

const TAKEN = "hostile-taken";
const GIVEN = "hostile-given";

export class Hostility implements Workload {
  readonly #scene: Scene;
  #isOver = false;

  constructor(scene: Scene) {
    this.#scene = scene;
  }

  async setup(): Promise<void> {
    const { client, topology, random } = this.#scene;
    await client.createDatabases([TAKEN, GIVEN]);
    const [database = ""] = topology.edited;
    const jobs = {
      "hostile-source": { source: `${HOSTILE_URL}/${database}`, target: TAKEN },
      "hostile-target": { source: database, target: `${HOSTILE_URL}/${GIVEN}` },
    };
    for (const [id, pair] of Object.entries(jobs)) {
      const continuous = random.chance(0.7);
      await client.put(JOBS_DATABASE, id, { ...jobOptions(random), ...pair, continuous });
    }
  }

  async tend(): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    const { client } = this.#scene;
    for (const id of ["hostile-source", "hostile-target"]) await client.delete(JOBS_DATABASE, id);
  }
}
