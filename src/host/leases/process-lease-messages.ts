/** The messages between a worker and the process that renews its lease. Both times are in `SharedTimes`. */
import type { LeaseEnding } from "../../jobs/index.ts";

/** The store that the renewing process opens for itself. */
export type LeaseStore =
  | { readonly kind: "lmdb"; readonly directory: string }
  | {
      readonly kind: "foundationdb";
      readonly clusterFile: string | undefined;
      readonly apiVersion: number | undefined;
      readonly headerVersion: number | undefined;
      readonly prefix: string | undefined;
    };

export type ProcessLeaseMessage =
  | {
      readonly kind: "open";
      readonly store: LeaseStore;
      /** Of the queue's subspace, in hexadecimal digits. */
      readonly prefix: string;
    }
  | { readonly kind: "start"; readonly worker: string; readonly leaseMs: number }
  | { readonly kind: "stop" };

export type ProcessLeaseAnswer =
  | { readonly kind: "ready" }
  | { readonly kind: "ended"; readonly ending: LeaseEnding };

/** The child knows the file of the shared times by this number: behind the three standard streams and the channel. */
export const TIMES_DESCRIPTOR = 4;

/** Signs of life in one lease: the process that renews looks for them before each renewal. */
export const BEATS_PER_LEASE = 10;
