/** Collects samples of a job's lag whenever the page reads it. */
import { useEffect, useState } from "preact/hooks";
import type { Job } from "../../contract/index.ts";
import type { LagSample } from "../base/run-series.ts";

/** Maximum number of samples; covers one hour at the reload interval. */
const SAMPLES_MAX = 720;

/** Returns the samples of the job's lag, oldest first. Takes a sample whenever the job is read. */
export function useLagSamples(job: Job): readonly LagSample[] {
  const [samples, setSamples] = useState<readonly LagSample[]>([]);
  useEffect(() => {
    const sample = { timeSec: Date.now() / 1000, lagSec: job.lag_sec };
    setSamples((before) => [...before, sample].slice(-SAMPLES_MAX));
  }, [job]);
  return samples;
}
