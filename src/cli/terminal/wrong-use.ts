/** A usage error. Exits with code 2. */
export class WrongUse extends Error {
  override readonly name = "WrongUse";
}
