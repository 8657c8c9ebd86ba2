/** Query of a list of jobs, the same in the page's URL and in the API. */
export type Query = Readonly<Record<string, string>>;

export const COMMANDS = ["retry", "pause", "resume", "reset", "cancel", "retry_failures"] as const;
export type Command = (typeof COMMANDS)[number];
