/** Rules for production packages in `package-lock.json`, checked without a network. */

/** An entry of the lock file, as npm writes it. */
export interface LockedPackage {
  readonly version?: string;
  readonly license?: string;
  readonly resolved?: string;
  readonly integrity?: string;
  readonly dev?: boolean;
  readonly devOptional?: boolean;
  /**
   * Set for the binaries of one platform. Their checksums are missing if they could not be fetched
   * when the lock file was written.
   */
  readonly optional?: boolean;
  readonly hasInstallScript?: boolean;
}

export type LockedPackages = Readonly<Record<string, LockedPackage>>;

/** Licences of packages that a program under the Apache License 2.0 may use and distribute. */
const LICENCES = new Set(["0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"]);

/** Packages with an install script: native modules with prebuilt binaries. */
const INSTALL_SCRIPTS = new Set(["lmdb", "msgpackr-extract"]);

/** Packages that are installed without development dependencies, by name. */
export function productionPackages(packages: LockedPackages): ReadonlyMap<string, LockedPackage> {
  const entries = Object.entries(packages)
    .filter(([path, { dev, devOptional }]) => path !== "" && !dev && !devOptional)
    .map(([path, locked]) => [path.replace(/^(?:.*\/)?node_modules\//, ""), locked] as const);
  return new Map(entries);
}

/** Returns a sentence for each package that violates a rule. */
export function dependencyFaults(packages: LockedPackages): readonly string[] {
  const faults = [...productionPackages(packages)].flatMap(([name, locked]) => {
    const { license, hasInstallScript, integrity, optional } = locked;
    return [
      ...(license !== undefined && LICENCES.has(license)
        ? []
        : [`${name}: licence ${license ?? "unknown"}`]),
      ...(integrity === undefined && !optional ? [`${name}: no checksum`] : []),
      ...(hasInstallScript === true && !INSTALL_SCRIPTS.has(name)
        ? [`${name}: has an install script`]
        : []),
    ];
  });
  const addresses = Object.entries(packages)
    .filter(([, { resolved }]) => resolved !== undefined)
    .map(([path]) => `${path}: contains the registry address`);
  return [...faults, ...addresses];
}

/** A reviewed advisory, with the reason why it does not affect this program. */
export interface AcceptedAdvisory {
  /** Identifier in the URL of the advisory: `GHSA-…`. */
  readonly id: string;
  readonly reason: string;
}

/** The relevant part of the output of `npm audit --json`. */
export interface AuditReport {
  readonly vulnerabilities?: Readonly<
    Record<
      string,
      {
        readonly severity: string;
        /** Names of packages, or advisories for the package itself. */
        readonly via: readonly (string | { readonly url: string; readonly title: string })[];
      }
    >
  >;
}

/** Returns a sentence for each advisory that is not accepted. Throws if the report is invalid. */
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
