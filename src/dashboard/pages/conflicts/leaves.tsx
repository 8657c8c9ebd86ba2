/** Compares the leaves of a document, a column for each. */
import { printJson } from "../../../base/index.ts";
import { COMPARED_MAX, type LeafDocument, readLeaves } from "../../api/conflicts.ts";
import { useIdleFeed } from "../../base/context.ts";
import { formatCount } from "../../base/format.ts";
import { useLoaded } from "../../base/use-loaded.ts";
import { linkTo } from "../../base/view.ts";
import { Cell, type Column, Table } from "../../components/table.tsx";
import { Foreign, Problem } from "../../components/text.tsx";

/** Maximum number of characters of a value. */
const VALUE_LENGTH_MAX = 500;

export function Leaves({ database, id }: { database: string; id: string }) {
  const { value, error, reload } = useLoaded(
    (signal) => readLeaves(database, id, signal),
    `leaves ${database} ${id}`,
  );
  useIdleFeed(reload);
  return (
    <>
      <h1>
        <a href={linkTo(["conflicts", database])}>
          <Foreign text={database} />
        </a>
        : <Foreign text={id} />
      </h1>
      <Problem error={error} />
      {value !== undefined && <Comparison leaves={value} />}
    </>
  );
}

function Comparison({ leaves }: { leaves: readonly LeafDocument[] }) {
  const members = new Set(leaves.flatMap((leaf) => Object.keys(leaf)));
  members.delete("_id");
  members.delete("_rev");
  const differing = [...members].filter((member) => {
    return new Set(leaves.map((leaf) => printed(leaf[member]))).size > 1;
  });
  const columns: readonly Column[] = [
    { name: "Member" },
    ...leaves.map((leaf, index) => ({ name: columnName(leaf, index) })),
  ];
  return (
    <>
      <p class="section-note">
        {`${formatCount(differing.length, "member differs", "members differ")}; ${formatCount(members.size - differing.length, "member is", "members are")} equal in ${leaves.length === COMPARED_MAX ? `the first ${COMPARED_MAX}` : "all"} leaves. `}
        To resolve the conflict, merge the leaves, overwrite the winner with the result, and delete
        the other leaves.
      </p>
      <Table label="Differences" columns={columns}>
        {differing.map((member) => (
          <tr key={member}>
            <th scope="row">
              <Foreign text={member} />
            </th>
            {leaves.map((leaf, index) => {
              const name = columnName(leaf, index);
              return (
                <Cell key={name} name={name}>
                  <Value value={leaf[member]} />
                </Cell>
              );
            })}
          </tr>
        ))}
      </Table>
    </>
  );
}

function columnName({ _rev: revision }: LeafDocument, index: number): string {
  const short = String(revision).slice(0, 12);
  return index === 0 ? `${short} (winner)` : short;
}

function Value({ value }: { value: unknown }) {
  const text = printed(value);
  if (text === undefined) return <span class="nothing">–</span>;
  const isCut = text.length > VALUE_LENGTH_MAX;
  return <Foreign text={isCut ? `${text.slice(0, VALUE_LENGTH_MAX)}…` : text} />;
}

/** Returns the JSON of a member; `undefined` if the document does not have it. */
function printed(value: unknown): string | undefined {
  return value === undefined ? undefined : printJson(value);
}
