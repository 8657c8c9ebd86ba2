import { expect, test } from "vitest";
import { valuesNow } from "../../base/index.ts";
import { parseIni } from "./ini.ts";
import { liveSettings, sectionOf, type Values } from "./settings.ts";

const { integer, flag } = sectionOf("replicator");
const TABLE = {
  jobsMax: integer("max_jobs", 500, { min: 0, meaning: "jobs" }),
  logs: flag("log", false, { meaning: "whether it logs" }),
};

function texts(text: string) {
  const sections = parseIni(`[replicator]\n${text}`);
  return { get: (section: string, key: string) => sections.get(section)?.get(key) };
}

test("copying live settings fails, because a copy would keep the current values", () => {
  const live = liveSettings<Values<typeof TABLE>>(texts("max_jobs = 7"), TABLE);
  expect([live.jobsMax, live.logs]).toEqual([7, false]);
  expect(() => ({ ...live })).toThrow("must not be copied");
  expect(() => Object.assign({}, live)).toThrow("must not be copied");
  expect(() => {
    const { jobsMax: _jobsMax, ...rest } = live;
    return rest;
  }).toThrow("must not be copied");
});

test("a copy made by valuesNow contains the current values", () => {
  const now = valuesNow(liveSettings<Values<typeof TABLE>>(texts("log = true"), TABLE));
  expect({ ...now }).toEqual({ jobsMax: 500, logs: true });
});

test("a setting is read from its former section if the current section does not set it", () => {
  const moved = sectionOf("chttpd", { former: "httpd" }).integer("timeout", 1, { meaning: "time" });
  const read = (text: string) => {
    const sections = parseIni(text);
    const get = (section: string, key: string) => sections.get(section)?.get(key);
    return liveSettings({ get }, { moved }).moved;
  };
  expect([read(""), read("[httpd]\ntimeout = 2")]).toEqual([1, 2]);
  expect(read("[httpd]\ntimeout = 2\n[chttpd]\ntimeout = 3")).toBe(3);
  expect(() => read("[httpd]\ntimeout = x")).toThrow(
    "[httpd] timeout = x: expected an integer of at least 1",
  );
});
