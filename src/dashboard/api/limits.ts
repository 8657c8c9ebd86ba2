/** Copies of the node's limits; a test checks that they are equal. */

/** Maximum length of a decision's reason, in characters. */
export const WHY_LENGTH_MAX = 200;
/** Maximum number of documents in a request for a retry. */
export const RETRY_IDS_MAX = 100;
/** Maximum number of shares of a group. */
export const SHARES_MAX = 1_000;
