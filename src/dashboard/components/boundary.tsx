/**
 * Confines a rendering error to a part of the page, so that the rest of the dashboard keeps
 * working.
 */
import { Component, type ComponentChildren } from "preact";
import { useFeed } from "../base/context.ts";
import { Problem } from "./text.tsx";

interface BoundaryProps {
  /** Address of the content. If it changes, the error is cleared and the content rendered again. */
  readonly view: string;
  readonly children: ComponentChildren;
}

interface BoundaryState {
  readonly failed?: { readonly view: string; readonly error: unknown } | undefined;
}

export class Boundary extends Component<BoundaryProps, BoundaryState> {
  static override getDerivedStateFromProps({ view }: BoundaryProps, { failed }: BoundaryState) {
    return failed === undefined || failed.view === view ? null : { failed: undefined };
  }

  override componentDidCatch(error: unknown): void {
    this.setState({ failed: { view: this.props.view, error } });
  }

  override render() {
    const { failed } = this.state;
    if (failed === undefined) return this.props.children;
    return <Broken error={failed.error} />;
  }
}

function Broken({ error }: { error: unknown }) {
  // This page shows no events; the feed only indicates whether the connection is live.
  useFeed({ state: "failed" }, { event: () => {}, gap: () => {} });
  return (
    <>
      <h1>This page cannot be shown</h1>
      <p>An unexpected error occurred. Other pages still work.</p>
      <Problem error={error} />
      <div class="commands">
        <button type="button" onClick={() => window.location.reload()}>
          Reload
        </button>
      </div>
    </>
  );
}
