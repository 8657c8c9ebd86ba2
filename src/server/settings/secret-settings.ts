/** Which settings are secrets: they are not shown, and the local file has them sealed. */

/** Whether the value is kept from who reads the configuration. */
export function isHiddenSetting(section: string, key: string): boolean {
  return section === "admins" || isSecretSetting(section, key);
}

/** Whether the local file has the value sealed. Administrators' passwords are stored as hashes only. */
export function isSecretSetting(section: string, key: string): boolean {
  if (section === "admins") return false;
  if (section === "jwt_keys") return key.startsWith("hmac:");
  // Who knows the URL of a receiver can often send to it: its path is all the credential there is.
  if (section === "alerts" && key === "url") return true;
  // Of this one, whether there is a secret.
  return /(^|_)(secret|password)$/.test(key) && key !== "proxy_use_secret";
}
