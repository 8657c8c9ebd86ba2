/** Name and password of the administrator of the node under test. */
export const ADMIN = { name: "adm", password: "pass" };

/** Settings of CouchDB's own test runs. */
export const INI = `[admins]
${ADMIN.name} = ${ADMIN.password}
[chttpd]
authentication_handlers = {chttpd_auth, jwt_authentication_handler}, {chttpd_auth, proxy_authentication_handler}, {chttpd_auth, cookie_authentication_handler}, {chttpd_auth, default_authentication_handler}
[tandem]
node_name = node1@127.0.0.1
`;
