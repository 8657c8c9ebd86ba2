/** Limits of the node that the dashboard knows by itself; a test compares them. Pure. */

/** The jobs that a command changed are named up to so many, and a command for more cannot be taken back. */
export const CHANGED_NAMES_MAX = 1_000;
/** Of the reason of a decision, in characters. */
export const WHY_LENGTH_MAX = 200;
/** Documents that a request for a retry may name. */
export const RETRY_IDS_MAX = 100;
/** Of a group. */
export const SHARES_MAX = 1_000;
