/** Servers used by jobs, and groups that share the slots. */
import { useState } from "preact/hooks";
import { PAGE_ROWS, readEndpoints, readGroups, readOtherBudgets } from "../api/servers.ts";
import type { Query } from "../api/types.ts";
import { useIdleFeed, useRefresh } from "../base/context.ts";
import { formatCount } from "../base/format.ts";
import { goTo } from "../base/location.ts";
import { useLoaded } from "../base/use-loaded.ts";
import { linkTo } from "../base/view.ts";
import { Pager } from "../components/pager.tsx";
import { Problem } from "../components/text.tsx";
import { Endpoints, OtherBudgets } from "./endpoints.tsx";
import { Groups } from "./groups.tsx";

const REFRESH_MS = 5_000;

export function ServersPage({ query }: { query: Query }) {
  const skip = Number(query.skip ?? 0) || 0;
  const [groupSkip, setGroupSkip] = useState(0);
  const endpoints = useLoaded((signal) => readEndpoints(skip, signal), `servers ${skip}`);
  // Reloaded when servers appear or disappear. Budgets of unused servers rarely change for other
  // reasons.
  const otherBudgets = useLoaded(readOtherBudgets, `budgets ${endpoints.value?.total}`);
  const groups = useLoaded((signal) => readGroups(groupSkip, signal), `groups ${groupSkip}`);
  const reload = () => {
    endpoints.reload();
    groups.reload();
  };
  useIdleFeed(reload);
  useRefresh(reload, REFRESH_MS);
  return (
    <>
      <div class="page-head">
        <h1>Servers</h1>
        {endpoints.value !== undefined && (
          <span class="section-note">{formatCount(endpoints.value.total, "server")}</span>
        )}
        <a href={linkTo(["topology"])}>Topology</a>
      </div>
      <Problem error={endpoints.error ?? otherBudgets.error ?? groups.error} />
      {endpoints.value !== undefined && endpoints.value.total > 0 && (
        <>
          <Endpoints
            key={endpoints.value.skip}
            rows={endpoints.value.rows}
            onChange={() => {
              endpoints.reload();
              otherBudgets.reload();
            }}
          />
          <Pager
            label="servers"
            skip={endpoints.value.skip}
            rows={PAGE_ROWS}
            total={endpoints.value.total}
            onSkip={(rows) => goTo(linkTo(["servers"], rows === 0 ? {} : { skip: String(rows) }))}
          />
        </>
      )}
      {otherBudgets.value !== undefined && otherBudgets.value.length > 0 && (
        <OtherBudgets budgets={otherBudgets.value} onChange={otherBudgets.reload} />
      )}
      {groups.value !== undefined && (
        <>
          <Groups key={groups.value.skip} page={groups.value} onChange={groups.reload} />
          <Pager
            label="groups"
            skip={groups.value.skip}
            rows={PAGE_ROWS}
            total={groups.value.total}
            onSkip={setGroupSkip}
          />
        </>
      )}
    </>
  );
}
