/** Packages that only `bench/jobs/package.json` installs. */
declare module "graphile-worker";
declare module "pg";
declare module "pg-boss";
