/** The command cannot be carried out as it was given. Ends with exit code 2. */
export class WrongUse extends Error {
  override readonly name = "WrongUse";
}
