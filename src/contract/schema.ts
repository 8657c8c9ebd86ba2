/** Building blocks of the schemas (JSON Schema 2020-12, by TypeBox). */
import {
  type Static,
  type TObject,
  type TProperties,
  type TSchema,
  type TUnion,
  Type,
} from "@sinclair/typebox";

type Description = { readonly description?: string };

/**
 * The type of the JSON value that a schema describes; readonly, because responses are never
 * modified.
 */
export type Shape<Schema extends TSchema> = Immutable<Static<Schema>>;

type Immutable<T> = T extends (infer Item)[]
  ? readonly Immutable<Item>[]
  : T extends object
    ? { readonly [Name in keyof T]: Immutable<T[Name]> }
    : T;

/** An object with exactly these members. */
export function exactly<Members extends TProperties>(members: Members): TObject<Members> {
  return Type.Object(members, { additionalProperties: false });
}

export function nullable<Schema extends TSchema>(
  schema: Schema,
  options: Description = {},
): TUnion<[Schema, ReturnType<typeof Type.Null>]> {
  return Type.Union([schema, Type.Null()], options);
}

/** One of the given strings. */
export function oneOf<const Words extends readonly string[]>(
  words: Words,
  options: Description = {},
) {
  return Type.Unsafe<Words[number]>({ type: "string", enum: [...words], ...options });
}

/** The schema with a description. */
export function described<Schema extends TSchema>(schema: Schema, description: string): Schema {
  return { ...schema, description };
}

export const text = Type.String();
export const flag = Type.Boolean();
/** A non-negative integer. */
export const count = Type.Integer({ minimum: 0 });
export const number = Type.Number();
/** A time in UTC in the format of RFC 3339. */
export const time = Type.String({ format: "date-time" });
export const json = Type.Unknown();

/** Response to a successful change. */
export const Done = exactly({ ok: Type.Literal(true), no_changes: Type.Optional(flag) });
export type Done = Shape<typeof Done>;

export function listOf<Item extends TSchema>(item: Item) {
  return Type.Array(item);
}

export function optional<Schema extends TSchema>(schema: Schema) {
  return Type.Optional(schema);
}

export function recordOf<Schema extends TSchema>(schema: Schema) {
  return Type.Record(Type.String(), schema);
}
