/** Entry point of the dashboard. Read `app.tsx` first, then the pages. */
import "./base/valid-language.ts";
import { render } from "preact";
import { App } from "./app.tsx";
import "./styles/base.css";
import "./styles/components.css";
import "./styles/job.css";
import "./styles/pages.css";
import "./styles/tables.css";

const root = document.getElementById("app");
if (root === null) throw new Error("The page lacks the root element of the dashboard");
render(<App />, root);
