/** Representation of sealed bytes in job requests and in text. */
import {
  base64Decode,
  base64Encode,
  errorCode,
  OperationalError,
  type Seal,
  utf8Decode,
  utf8Encode,
} from "../../base/index.ts";
import type { JobData, JobName, RequestForm } from "../../jobs/index.ts";

/**
 * Format of sealed requests. It is higher than the formats of unsealed requests
 * (`job-data-record.ts`). A program without support for sealing therefore treats a sealed job as
 * one from a newer version.
 */
const FORMAT_SEALED = 3;

interface SealedRequest {
  readonly format: typeof FORMAT_SEALED;
  readonly sealed: string;
}

/** Stores job requests as `{"format": 3, "sealed": base64}`. */
export function sealedRequests(seal: Seal): RequestForm {
  const encode = (job: JobName, request: JobData): JobData => {
    const sealed = seal.seal(utf8Encode(JSON.stringify(request)), placeOf(job));
    return { format: FORMAT_SEALED, sealed: base64Encode(sealed) };
  };
  const open = (job: JobName, stored: JobData): JobData => {
    if (!isSealed(stored)) return stored;
    const place = placeOf(job);
    return JSON.parse(utf8Decode(seal.open(bytesOf(stored.sealed, place), place)));
  };
  return {
    encode,
    decode(job, stored) {
      try {
        return open(job, stored);
      } catch (error) {
        // An unreadable job must not prevent other jobs from being listed or run.
        if (isSecretsError(error)) return stored;
        throw error;
      }
    },
    renew(job, stored) {
      const isCurrent = isSealed(stored) && seal.isCurrent(bytesOf(stored.sealed, placeOf(job)));
      return isCurrent ? undefined : encode(job, open(job, stored));
    },
  };
}

function isSecretsError(error: unknown): boolean {
  return ["SECRETS_KEY_MISSING", "SECRETS_DAMAGED"].includes(errorCode(error) ?? "");
}

function isSealed(stored: JobData): stored is JobData & SealedRequest {
  return stored.format === FORMAT_SEALED && typeof stored.sealed === "string";
}

function placeOf({ type, id }: JobName): string {
  return JSON.stringify(["request", type, id]);
}

/** Prefix of a sealed text, before its base64. */
const PREFIX = "sealed:";

export function sealText(seal: Seal, text: string, place: string): string {
  return PREFIX + base64Encode(seal.seal(utf8Encode(text), place));
}

/** Returns the unsealed text. A text that is not sealed is returned unchanged. */
export function openText(seal: Seal, text: string, place: string): string {
  if (!text.startsWith(PREFIX)) return text;
  return utf8Decode(seal.open(bytesOf(text.slice(PREFIX.length), place), place));
}

/** Whether the text is sealed with the current sealing key. */
export function isCurrentText(seal: Seal, text: string): boolean {
  if (!text.startsWith(PREFIX)) return false;
  return seal.isCurrent(bytesOf(text.slice(PREFIX.length), "text"));
}

function bytesOf(text: string, place: string): Uint8Array {
  const bytes = base64Decode(text);
  if (bytes !== undefined) return bytes;
  throw new OperationalError(
    "SECRETS_DAMAGED",
    "A sealed value is damaged, or was moved to a different location",
    {
      place,
    },
  );
}
