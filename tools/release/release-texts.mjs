/** Texts of a release: its section of the changelog, and its provenance. */

/**
 * Returns the section of a version as `notes`, and as `dated` the changelog with `date` instead of
 * "unreleased". Throws if there is no section, or if it is empty.
 */
export function changelogSection(changelog, version, date) {
  const heading = `## [${version}]`;
  const begin = changelog.split("\n").findIndex((line) => line.startsWith(heading));
  if (begin < 0) throw new Error(`CHANGELOG.md has no section ${heading}`);
  const lines = changelog.split("\n");
  const next = lines.findIndex((line, at) => at > begin && line.startsWith("## "));
  const notes = lines
    .slice(begin + 1, next < 0 ? undefined : next)
    .join("\n")
    .trim();
  if (notes === "") throw new Error(`the section ${heading} of CHANGELOG.md is empty`);
  if (lines[begin].endsWith("- unreleased")) lines[begin] = `${heading} - ${date}`;
  return { notes, dated: lines.join("\n") };
}

/**
 * Returns a provenance statement (in-toto Statement 1, SLSA Provenance 1): which source and which
 * packages the files were built from. `files` have a name and a SHA-256 in hexadecimal digits.
 */
export function provenance({ version, commit, lockSha256, time, files }) {
  return {
    _type: "https://in-toto.io/Statement/v1",
    subject: files.map(({ name, sha256 }) => ({ name, digest: { sha256 } })),
    predicateType: "https://slsa.dev/provenance/v1",
    predicate: {
      buildDefinition: {
        buildType: "urn:couch-tandem:release:1",
        externalParameters: { version },
        resolvedDependencies: [
          { name: "source", digest: { gitCommit: commit } },
          { name: "package-lock.json", digest: { sha256: lockSha256 } },
        ],
      },
      runDetails: {
        builder: { id: "urn:couch-tandem:tools/release.mjs" },
        metadata: { startedOn: time },
      },
    },
  };
}
