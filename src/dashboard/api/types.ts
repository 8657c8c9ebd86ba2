/** Query of a list of jobs, the same in the page's URL and in the API. */
export type Query = Readonly<Record<string, string>>;
