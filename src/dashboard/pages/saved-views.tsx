/** Links to the saved views of the list of jobs, with controls to save and delete them. */
import { useEffect, useState } from "preact/hooks";
import type { Query } from "../api/types.ts";
import { useSurroundings } from "../base/context.ts";
import {
  isShown,
  type SavedView,
  textOfViews,
  VIEW_NAME_LENGTH_MAX,
  viewsKey,
  viewsOf,
  withoutView,
  withView,
} from "../base/saved-views.ts";
import { linkTo } from "../base/view.ts";
import { Dialog, DialogButtons } from "../components/dialog.tsx";
import { Foreign, Problem } from "../components/text.tsx";

export interface SavedViewList {
  readonly views: readonly SavedView[];
  /** Changes the stored views. Throws an Error if the browser does not store them. */
  readonly change: (edit: (views: readonly SavedView[]) => readonly SavedView[]) => void;
}

export function useSavedViews(): SavedViewList {
  const { session } = useSurroundings();
  const key = viewsKey(session.name);
  const [views, setViews] = useState(() => read(key));
  useEffect(() => {
    const follow = (event: StorageEvent) => {
      if (event.key === key || event.key === null) setViews(read(key));
    };
    window.addEventListener("storage", follow);
    return () => window.removeEventListener("storage", follow);
  }, [key]);
  const change: SavedViewList["change"] = (edit) => {
    // Reads the storage again, so that views saved in another tab are kept.
    const edited = edit(read(key));
    try {
      localStorage.setItem(key, textOfViews(edited));
    } catch {
      throw new Error("The browser does not allow this page to store views");
    }
    setViews(edited);
  };
  return { views, change };
}

function read(key: string): readonly SavedView[] {
  try {
    return viewsOf(localStorage.getItem(key));
  } catch {
    return [];
  }
}

export function SavedViews({ query, list }: { query: Query; list: SavedViewList }) {
  const { announce } = useSurroundings();
  const [isSaving, setIsSaving] = useState(false);
  const [error, setError] = useState<unknown>();
  const attempt = (edit: Parameters<SavedViewList["change"]>[0]): boolean => {
    setError(undefined);
    try {
      list.change(edit);
      return true;
    } catch (failure) {
      setError(failure);
      return false;
    }
  };
  const remove = (view: SavedView) => {
    if (!attempt((views) => withoutView(views, view.name))) return;
    announce(`View ${view.name} deleted`, () => attempt((views) => withView(views, view)));
  };
  const save = (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const name = String(form.get("name")).trim();
    if (!attempt((views) => withView(views, { name, query }))) return;
    setIsSaving(false);
    announce(`View ${name} saved in this browser`);
  };
  const current = list.views.find((view) => isShown(view, query));
  return (
    <nav class="commands views" aria-label="Saved views">
      {list.views.map((view) => (
        <span key={view.name} class="view">
          <a
            class="button"
            href={linkTo(["jobs"], view.query)}
            aria-current={view === current ? "page" : undefined}
          >
            <Foreign text={view.name} />
          </a>
          <button
            type="button"
            class="quiet"
            aria-label={`Delete view ${view.name}`}
            onClick={() => remove(view)}
          >
            ×
          </button>
        </span>
      ))}
      {current === undefined && Object.keys(query).length > 0 && (
        <button type="button" class="quiet" onClick={() => setIsSaving(true)}>
          Save view
        </button>
      )}
      {!isSaving && <Problem error={error} />}
      {isSaving && (
        <Dialog title="Save this view" onClose={() => setIsSaving(false)}>
          <form onSubmit={save}>
            <p>Saves the filters and the sort order in this browser, for your user only.</p>
            <label class="field">
              Name
              <input name="name" required maxLength={VIEW_NAME_LENGTH_MAX} autoComplete="off" />
            </label>
            <Problem error={error} />
            <DialogButtons leave="Discard" onLeave={() => setIsSaving(false)}>
              <button type="submit" class="primary">
                Save
              </button>
            </DialogButtons>
          </form>
        </Dialog>
      )}
    </nav>
  );
}
