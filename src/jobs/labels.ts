/**
 * Placement: labels of workers, and labels that a job requires. A worker is allowed to run a job if
 * it has all labels that the job requires.
 *
 * The pending jobs that require the same labels form a queue. A worker reads one queue for each
 * subset of its own labels. It never reads jobs that it is not allowed to run, however many other
 * queues there are.
 */
import { assert } from "../base/index.ts";
import type { JobType, Labels } from "./job.ts";

export type { Labels };

/**
 * Identifies the pending jobs of a type that require the same labels: the type if they require
 * none, otherwise the type followed by the labels.
 */
export type Queue = JobType | string[];

/** Maximum number of labels of a worker. With eight labels, a worker reads 93 queues. */
export const WORKER_LABELS_MAX = 8;
/** Maximum number of labels that a job can require. */
export const REQUIRED_LABELS_MAX = 3;

export const NO_LABELS: Labels = [];

const LABEL = /^[a-z0-9][a-z0-9_.:-]{0,63}$/;
/** Description of a valid label, for messages. */
export const LABEL_RULE =
  "1 to 64 characters of a-z, 0-9, _, ., : and -, the first one a letter or digit";

export function isLabel(text: unknown): text is string {
  return typeof text === "string" && LABEL.test(text);
}

/** Returns the labels sorted, without duplicates. */
export function labelSet(labels: Iterable<string>): Labels {
  return [...new Set(labels)].sort();
}

/** Whether a worker with labels `own` is allowed to run a job that requires `required`. */
export function hasLabels(own: Labels, required: Labels): boolean {
  return required.every((label) => own.includes(label));
}

export function areSameLabels(left: Labels, right: Labels): boolean {
  return left.length === right.length && left.every((label, index) => label === right[index]);
}

/** Returns the queue of the jobs that require these labels. */
export function queueOf(type: JobType, labels: Labels): Queue {
  return labels.length === 0 ? type : [type, ...labels];
}

export function typeOfQueue(queue: Queue): JobType {
  return typeof queue === "string" ? queue : (queue[0] as JobType);
}

/** Returns the labels that the jobs of a queue require. */
export function labelsOfQueue(queue: Queue): Labels {
  return typeof queue === "string" ? NO_LABELS : queue.slice(1);
}

/** Returns the queues whose jobs a worker with these labels is allowed to run. */
export function queuesFor(type: JobType, labels: Labels): readonly Queue[] {
  assert(labels.length <= WORKER_LABELS_MAX, "A worker must not have more labels than allowed");
  let sets: Labels[] = [NO_LABELS];
  for (const label of labels) {
    const small = sets.filter((set) => set.length < REQUIRED_LABELS_MAX);
    sets = [...sets, ...small.map((set) => [...set, label])];
  }
  return sets.map((set) => queueOf(type, set));
}
