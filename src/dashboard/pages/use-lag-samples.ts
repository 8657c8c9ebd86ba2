/** Remembers how far behind a job was whenever the page has read it. */
import { useEffect, useState } from "preact/hooks";
import type { Job } from "../../contract/index.ts";
import type { LagSample } from "../base/run-series.ts";

/** An hour, as often as the page is read again. */
const SAMPLES_MAX = 720;

/** The oldest first. */
export function useLagSamples(job: Job): readonly LagSample[] {
  const [samples, setSamples] = useState<readonly LagSample[]>([]);
  useEffect(() => {
    const sample = { timeSec: Date.now() / 1000, lagSec: job.lag_sec };
    setSamples((before) => [...before, sample].slice(-SAMPLES_MAX));
  }, [job]);
  return samples;
}
