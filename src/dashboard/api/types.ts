/** Query of a list of jobs. The page's URL and the API have the same parameters. */
export type Query = Readonly<Record<string, string>>;

export const COMMANDS = ["retry", "pause", "resume", "reset", "cancel", "retry_failures"] as const;
export type Command = (typeof COMMANDS)[number];
