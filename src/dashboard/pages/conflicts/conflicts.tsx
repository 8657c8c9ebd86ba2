/** Databases with conflicts, the documents of one of them, and the leaves of one document. */
import type { ConflictRow } from "../../../contract/index.ts";
import { client } from "../../api/request.ts";
import type { Query } from "../../api/types.ts";
import { useIdleFeed } from "../../base/context.ts";
import { formatCount } from "../../base/format.ts";
import { useLoaded } from "../../base/use-loaded.ts";
import { linkTo } from "../../base/view.ts";
import { Cell, type Column, Figure, Table } from "../../components/table.tsx";
import { Foreign, Moment, Problem } from "../../components/text.tsx";
import { Leaves } from "./leaves.tsx";
import { Resolution } from "./policy.tsx";

const DATABASE_COLUMNS: readonly Column[] = [
  { name: "Database" },
  { name: "Documents", isNumber: true },
];
const DOCUMENT_COLUMNS: readonly Column[] = [
  { name: "Document" },
  { name: "Leaves", isNumber: true },
  { name: "Since", isNumber: true },
  { name: "Job" },
];

export function ConflictsPage({ place, query }: { place: readonly string[]; query: Query }) {
  const [database, id] = place;
  if (database === undefined) return <Databases bookmark={query.bookmark} />;
  if (id === undefined) return <Documents database={database} bookmark={query.bookmark} />;
  return <Leaves database={database} id={id} />;
}

function Databases({ bookmark }: { bookmark: string | undefined }) {
  const { value, error, reload } = useLoaded(
    (signal) => client.conflicts.databases({ bookmark }, { signal }).page(),
    `conflicts ${bookmark}`,
  );
  useIdleFeed(reload);
  return (
    <>
      <h1>Conflicts</h1>
      <Problem error={error} />
      {value?.databases.length === 0 && <p>No database has documents with conflicts.</p>}
      {value !== undefined && value.databases.length > 0 && (
        <Table label="Databases with conflicts" columns={DATABASE_COLUMNS}>
          {value.databases.map(({ name, conflicts }) => (
            <tr key={name}>
              <th scope="row">
                <a href={linkTo(["conflicts", name])}>
                  <Foreign text={name} />
                </a>
              </th>
              <Cell name="Documents" isNumber>
                <Figure value={conflicts} />
              </Cell>
            </tr>
          ))}
        </Table>
      )}
      <Next place={[]} bookmark={value?.bookmark} />
    </>
  );
}

function Documents({ database, bookmark }: { database: string; bookmark: string | undefined }) {
  const { value, error, reload } = useLoaded(
    (signal) => client.conflicts.list(database, { bookmark }, { signal }).page(),
    `conflicts ${database} ${bookmark}`,
  );
  useIdleFeed(reload);
  return (
    <>
      <div class="page-head">
        <h1>
          <a href={linkTo(["conflicts"])}>Conflicts</a> in <Foreign text={database} />
        </h1>
        {value !== undefined && (
          <span class="section-note" role="status">
            {formatCount(value.total_rows, "document")}
            {!value.complete && "; still scanning documents written by an older version of Tandem"}
          </span>
        )}
      </div>
      <Problem error={error} />
      {value !== undefined && value.conflicts.length > 0 && (
        <Table label="Documents with conflicts" columns={DOCUMENT_COLUMNS}>
          {value.conflicts.map((row) => (
            <Document key={row.id} database={database} row={row} />
          ))}
        </Table>
      )}
      <Next place={[database]} bookmark={value?.bookmark} />
      <Resolution database={database} onChange={reload} />
    </>
  );
}

function Document({ database, row }: { database: string; row: ConflictRow }) {
  return (
    <tr>
      <th scope="row">
        <a href={linkTo(["conflicts", database, row.id])}>
          <Foreign text={row.id} />
        </a>
        {row.unresolved !== null && (
          <p class="section-note">
            Not resolved by the policy: <Foreign text={row.unresolved.reason} />
          </p>
        )}
      </th>
      <Cell name="Leaves" isNumber>
        <Figure value={row.leaves} />
      </Cell>
      <Cell name="Since" isNumber>
        <Moment time={row.since} />
      </Cell>
      <Cell name="Job">
        {row.job_id === null ? (
          <span class="nothing">–</span>
        ) : (
          <a href={linkTo(["jobs", row.job_id])}>
            <Foreign text={row.job_id} />
          </a>
        )}
      </Cell>
    </tr>
  );
}

function Next({
  place,
  bookmark,
}: {
  place: readonly string[];
  bookmark: string | null | undefined;
}) {
  if (bookmark === null || bookmark === undefined) return null;
  return (
    <p>
      <a class="button" href={linkTo(["conflicts", ...place], { bookmark })}>
        Next page
      </a>
    </p>
  );
}
