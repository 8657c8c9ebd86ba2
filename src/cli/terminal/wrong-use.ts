/** The command was used wrongly. Exits with code 2. */
export class WrongUse extends Error {
  override readonly name = "WrongUse";
}
