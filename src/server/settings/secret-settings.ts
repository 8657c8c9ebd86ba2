/** Settings that are secrets: they are not shown, and are sealed in the local file. */

/** Whether the value is hidden when the configuration is read. */
export function isHiddenSetting(section: string, key: string): boolean {
  return section === "admins" || isSecretSetting(section, key);
}

/**
 * Whether the value is sealed in the local file. Administrators' passwords are not sealed, because
 * the file contains only their hashes.
 */
export function isSecretSetting(section: string, key: string): boolean {
  if (section === "admins") return false;
  if (section === "jwt_keys") return key.startsWith("hmac:");
  // The URL of an alert receiver is often sufficient to send messages to the receiver.
  if (section === "alerts" && key === "url") return true;
  // `proxy_use_secret` is a flag, not a secret.
  return /(^|_)(secret|password)$/.test(key) && key !== "proxy_use_secret";
}
