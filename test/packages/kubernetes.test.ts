/** The Kustomize overlays in `examples/kubernetes/`, rendered by kubectl. */
import { execFileSync, spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { StatefulSet } from "kubernetes-models/apps/v1";
import { Ingress } from "kubernetes-models/networking.k8s.io/v1";
import { PodDisruptionBudget } from "kubernetes-models/policy/v1";
import { ConfigMap, Secret, Service } from "kubernetes-models/v1";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";

const SOURCE = fileURLToPath(new URL("../../examples/kubernetes", import.meta.url));
const MODELS = { ConfigMap, Ingress, PodDisruptionBudget, Secret, Service, StatefulSet };
const canRender = spawnSync("kubectl", ["version", "--client"]).status === 0;
const directory = mkdtempSync(join(tmpdir(), "tandem-test-"));

beforeAll(() => {
  cpSync(SOURCE, directory, { recursive: true });
  for (const overlay of readdirSync(join(directory, "overlays"))) {
    const folder = join(directory, "overlays", overlay);
    const secrets = "COUCHDB_USER=admin\nCOUCHDB_PASSWORD=secret\nTANDEM_SECRETS_KEY=key\n";
    writeFileSync(join(folder, "secrets.env"), secrets);
    writeFileSync(join(folder, "fdb.cluster"), "tandem:tandem@127.0.0.1:4500\n");
  }
});
afterAll(() => rmSync(directory, { recursive: true }));

/** Returns the rendered objects by kind. Checks each object against its schema. */
function rendered(overlay: string) {
  const flags = ["kustomize", join(directory, "overlays", overlay)];
  const text = execFileSync("kubectl", flags, { encoding: "utf8" });
  const objects = parseAllDocuments(text).map((document) => document.toJS());
  for (const object of objects) new MODELS[object.kind as keyof typeof MODELS](object).validate();
  return Object.fromEntries(objects.map((object) => [object.kind, object]));
}

/** Returns parts of the set's pod. Checks that the pod's mounts, secrets and service exist. */
function checkedPod(objects: Readonly<Record<string, ReturnType<typeof parse>>>) {
  const { Service: service, StatefulSet: set, Secret: secret } = objects;
  const { metadata, spec } = set.spec.template;
  expect(metadata.labels).toMatchObject(service.spec.selector);
  expect(metadata.labels).toMatchObject(set.spec.selector.matchLabels);
  expect(set.spec.serviceName).toBe(service.metadata.name);
  const [container] = spec.containers;
  const claims = set.spec.volumeClaimTemplates ?? [];
  const volumes = [...spec.volumes, ...claims.map((claim: typeof set) => claim.metadata)];
  const names = (parts: readonly { readonly name: string }[]) =>
    parts.map(({ name }) => name).sort();
  expect(names(container.volumeMounts)).toEqual(names(volumes));
  for (const { valueFrom } of container.env) {
    if (valueFrom === undefined) continue;
    expect(valueFrom.secretKeyRef.name).toBe(secret.metadata.name);
    expect(Object.keys(secret.data)).toContain(valueFrom.secretKeyRef.key);
  }
  return { container, claims, volumes: spec.volumes };
}

test.skipIf(canRender)("machines of CI have kubectl", () => {
  expect(process.env.CI ?? "").toBe("");
});

test("files that a kustomization names exist, except those with secrets", () => {
  const files = readdirSync(SOURCE, { recursive: true, encoding: "utf8" });
  const kustomizations = files.filter((file) => file.endsWith("kustomization.yaml"));
  expect(kustomizations).toHaveLength(5);
  for (const file of kustomizations) {
    const folder = join(SOURCE, file, "..");
    const {
      resources = [],
      components = [],
      patches = [],
    } = parse(readFileSync(join(SOURCE, file), "utf8"));
    const paths = patches.flatMap(({ path }: { path?: string }) => path ?? []);
    for (const name of [...resources, ...components, ...paths]) {
      expect([file, name, existsSync(join(folder, name))]).toEqual([file, name, true]);
    }
    for (const name of ["secrets.env", "fdb.cluster"])
      expect(readdirSync(folder)).not.toContain(name);
  }
});

test.skipIf(!canRender)("a single node keeps its embedded store on a volume", () => {
  const objects = rendered("one-node");
  expect(Object.keys(objects).sort()).toEqual(["Secret", "Service", "StatefulSet"]);
  const { claims, container } = checkedPod(objects);
  expect(objects.StatefulSet.spec.replicas).toBe(1);
  expect(claims[0].metadata.name).toBe("data");
  expect(container.securityContext.readOnlyRootFilesystem).toBe(true);
  const { Service: service } = objects;
  expect(() => new Service({ ...service, spec: { ports: 1 } }).validate()).toThrow("ports");
});

test.skipIf(!canRender)(
  "nodes of a cluster share the cluster file and the key, behind an ingress",
  () => {
    const objects = rendered("cluster");
    expect(Object.keys(objects).sort()).toEqual(Object.keys(MODELS).sort());
    const { claims, container, volumes } = checkedPod(objects);
    expect([objects.StatefulSet.spec.replicas, claims]).toEqual([3, []]);
    const value = (name: string) =>
      container.env.find((variable: { readonly name: string }) => variable.name === name);
    expect(value("TANDEM_STORE").value).toBe("foundationdb");
    expect(value("TANDEM_SECRETS_KEY").valueFrom).toBeDefined();
    const { ConfigMap: map, Ingress: ingress } = objects;
    const mounted = volumes.find(
      ({ configMap }: { configMap?: unknown }) => configMap !== undefined,
    );
    expect(mounted.configMap.name).toBe(map.metadata.name);
    const { mountPath } = container.volumeMounts.find(
      ({ name }: { name: string }) => name === mounted.name,
    );
    expect(value("TANDEM_CLUSTER_FILE").value).toBe(`${mountPath}/${Object.keys(map.data)[0]}`);
    const [{ host, http }] = ingress.spec.rules;
    expect(ingress.spec.tls[0].hosts).toEqual([host]);
    expect(http.paths[0].backend.service).toEqual({
      name: objects.Service.metadata.name,
      port: { name: objects.Service.spec.ports[0].name },
    });
  },
);
