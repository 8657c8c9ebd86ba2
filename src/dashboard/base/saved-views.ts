/**
 * Saved views: named filters and orders of the list of jobs, stored in the browser for each user.
 * Pure, except for the storage passed in.
 */
import type { Query } from "../api/types.ts";
import { linkTo, parseView } from "./view.ts";

export interface SavedView {
  readonly name: string;
  readonly query: Query;
}

/**
 * Maximum number of saved views. Limits the storage in the browser, and the length of the row of
 * links.
 */
export const VIEWS_MAX = 20;
export const VIEW_NAME_LENGTH_MAX = 40;
const LINK_LENGTH_MAX = 2_000;
const TEXT_LENGTH_MAX = VIEWS_MAX * (LINK_LENGTH_MAX + VIEW_NAME_LENGTH_MAX + 100);

/** Returns the storage key, which depends on the user: users of one browser have separate views. */
export function viewsKey(user: string | null): string {
  return `tandem.views.${user ?? ""}`;
}

/** Reads stored views. Ignores everything that `textOfViews` would not have written. */
export function viewsOf(text: string | null): readonly SavedView[] {
  if (text === null || text.length > TEXT_LENGTH_MAX) return [];
  let stored: unknown;
  try {
    stored = JSON.parse(text);
  } catch {
    return [];
  }
  if (!Array.isArray(stored)) return [];
  const views = stored.slice(0, VIEWS_MAX).flatMap((entry: unknown) => {
    const [name, link] = Array.isArray(entry) ? entry : [];
    if (typeof name !== "string" || typeof link !== "string") return [];
    const { segments, query } = parseView(link);
    const isFine = isViewName(name) && link.length <= LINK_LENGTH_MAX && segments[0] === "jobs";
    return isFine && segments.length === 1 ? [{ name, query }] : [];
  });
  return views.filter(({ name }, index) => views.findIndex((view) => view.name === name) === index);
}

export function textOfViews(views: readonly SavedView[]): string {
  return JSON.stringify(views.map(({ name, query }) => [name, linkTo(["jobs"], query)]));
}

/**
 * Adds a view, or replaces the one of the same name. Throws an Error with a message for the user.
 */
export function withView(views: readonly SavedView[], added: SavedView): readonly SavedView[] {
  if (!isViewName(added.name)) {
    throw new Error(`Enter a name of 1 to ${VIEW_NAME_LENGTH_MAX} characters`);
  }
  if (linkTo(["jobs"], added.query).length > LINK_LENGTH_MAX) {
    throw new Error("The filters are too long to save");
  }
  const others = withoutView(views, added.name);
  if (others.length >= VIEWS_MAX) {
    throw new Error(`You already have ${VIEWS_MAX} saved views, the maximum; delete one first`);
  }
  return [...others, added].sort((one, other) => one.name.localeCompare(other.name));
}

export function withoutView(views: readonly SavedView[], name: string): readonly SavedView[] {
  return views.filter((view) => view.name !== name);
}

/** Whether a view shows the list with these filters and this order. */
export function isShown({ query }: SavedView, shown: Query): boolean {
  const sorted = (one: Query) => JSON.stringify(Object.entries(one).sort());
  return sorted(query) === sorted(shown);
}

function isViewName(name: string): boolean {
  return name.trim() === name && name !== "" && name.length <= VIEW_NAME_LENGTH_MAX;
}
