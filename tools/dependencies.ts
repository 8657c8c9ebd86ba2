/** What the packages may be that a server runs with, as `package-lock.json` names them: checked without a network. */

/** An entry of the lock file; `npm` writes it. */
export interface LockedPackage {
  readonly version?: string;
  readonly license?: string;
  readonly resolved?: string;
  readonly integrity?: string;
  readonly dev?: boolean;
  readonly devOptional?: boolean;
  /** Binaries for one kind of machine: the lock file has checksums only of those that its writer could fetch. */
  readonly optional?: boolean;
  readonly hasInstallScript?: boolean;
}

export type LockedPackages = Readonly<Record<string, LockedPackage>>;

/** Licences under which a package may be used by a program under the Apache License 2.0, and passed on with it. */
const LICENCES = new Set(["0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"]);

/** Packages that run a program when they are installed: native modules with prebuilt binaries. */
const INSTALL_SCRIPTS = new Set(["lmdb", "msgpackr-extract"]);

/** By name, those that are installed without the tools of development. */
export function productionPackages(packages: LockedPackages): ReadonlyMap<string, LockedPackage> {
  const entries = Object.entries(packages)
    .filter(([path, { dev, devOptional }]) => path !== "" && !dev && !devOptional)
    .map(([path, locked]) => [path.replace(/^(?:.*\/)?node_modules\//, ""), locked] as const);
  return new Map(entries);
}

/** A sentence for each package that is not as it should be. */
export function dependencyFaults(packages: LockedPackages): readonly string[] {
  const faults = [...productionPackages(packages)].flatMap(([name, locked]) => {
    const { license, hasInstallScript, integrity, optional } = locked;
    return [
      ...(license !== undefined && LICENCES.has(license)
        ? []
        : [`${name}: licence ${license ?? "unknown"}`]),
      ...(integrity === undefined && !optional ? [`${name}: no checksum`] : []),
      ...(hasInstallScript === true && !INSTALL_SCRIPTS.has(name)
        ? [`${name}: runs a program when it is installed`]
        : []),
    ];
  });
  const addresses = Object.entries(packages)
    .filter(([, { resolved }]) => resolved !== undefined)
    .map(([path]) => `${path}: names the address that it came from`);
  return [...faults, ...addresses];
}

/** An advisory that was looked at: why it does not concern this program. */
export interface AcceptedAdvisory {
  /** As in its address: `GHSA-…`. */
  readonly id: string;
  readonly reason: string;
}

/** The part of what `npm audit --json` prints that counts. */
export interface AuditReport {
  readonly vulnerabilities?: Readonly<
    Record<
      string,
      {
        readonly severity: string;
        /** Names of packages, or what is known of the package itself. */
        readonly via: readonly (string | { readonly url: string; readonly title: string })[];
      }
    >
  >;
}

/** A sentence for each advisory that nobody has accepted. Throws when the report is none. */
export function openAdvisories(
  { vulnerabilities }: AuditReport,
  accepted: readonly AcceptedAdvisory[],
): readonly string[] {
  if (vulnerabilities === undefined) throw new Error("no report: the registry did not answer");
  const ids = new Set(accepted.map(({ id }) => id));
  return Object.entries(vulnerabilities).flatMap(([name, { severity, via }]) =>
    via.flatMap((cause) => {
      if (typeof cause === "string" || ids.has(cause.url.split("/").at(-1) ?? "")) return [];
      return [`${name}: ${severity}: ${cause.title} (${cause.url})`];
    }),
  );
}
