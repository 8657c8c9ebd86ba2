/**
 * A number with its noun: `1 database`, `2 databases`. `many` is for irregular plurals and for
 * longer phrases: `counted(n, "job fails", "jobs fail")`.
 */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}
