/** The processes that run jobs. */
import { readNodes } from "../api/nodes.ts";
import { useFeed, useSurroundings } from "../base/context.ts";
import { formatNumber } from "../base/format.ts";
import { useInterval, useLoaded } from "../base/use-loaded.ts";
import { Foreign, Moment, Problem } from "../components/text.tsx";

const REFRESH_MS = 5_000;

export function NodesPage() {
  const { isPaused } = useSurroundings();
  const { value: nodes, error, reload } = useLoaded(readNodes, "nodes");
  // Says whether the connection stands; what nodes do is no event.
  useFeed({}, { event: () => {}, gap: reload });
  useInterval(() => {
    if (!isPaused) reload();
  }, REFRESH_MS);
  return (
    <>
      <h1>Nodes</h1>
      <Problem error={error} />
      {nodes !== undefined && (
        <div class="wide">
          <table class="plain">
            <thead>
              <tr>
                <th scope="col">Node</th>
                <th scope="col">Process</th>
                <th scope="col" class="number">
                  Jobs
                </th>
                <th scope="col" class="number">
                  Since
                </th>
                <th scope="col" class="number">
                  Last sign of life
                </th>
              </tr>
            </thead>
            <tbody>
              {nodes.map(({ node, pid, jobs, since, lastSign }) => (
                <tr key={`${node} ${pid}`}>
                  <th scope="row">
                    <Foreign text={node} />
                  </th>
                  <td>{pid ?? "–"}</td>
                  <td class="number">{jobs === null ? "–" : formatNumber(jobs)}</td>
                  <td class="number">
                    <Moment time={since} />
                  </td>
                  <td class="number">
                    <Moment time={lastSign} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}
