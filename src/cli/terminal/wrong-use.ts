/** A usage error. The command exits with code 2. */
export class WrongUse extends Error {
  override readonly name = "WrongUse";
}
