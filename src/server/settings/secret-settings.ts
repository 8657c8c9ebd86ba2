/** Settings that are secrets: they are not shown, and are sealed in the local file. */

/** Whether the value is hidden when the configuration is read. */
export function isHiddenSetting(section: string, key: string): boolean {
  return section === "admins" || isSecretSetting(section, key);
}

/**
 * Whether the value is sealed in the local file. Administrators' passwords are stored only as
 * hashes.
 */
export function isSecretSetting(section: string, key: string): boolean {
  if (section === "admins") return false;
  if (section === "jwt_keys") return key.startsWith("hmac:");
  // Knowing the URL of a receiver often suffices to send to it: its path is the credential.
  if (section === "alerts" && key === "url") return true;
  // This one only says whether there is a secret.
  return /(^|_)(secret|password)$/.test(key) && key !== "proxy_use_secret";
}
