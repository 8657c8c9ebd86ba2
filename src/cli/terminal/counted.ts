/**
 * A number and what it counts: `1 database`, `2 databases`. `many` is for words whose plural takes more than an `s`, and for words that
 * follow: `counted(n, "job fails", "jobs fail")`.
 */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}
