/** Login with a session cookie that scripts cannot read. */
import { useState } from "preact/hooks";
import { RequestError } from "../api/request.ts";
import { logIn, type Session } from "../api/session.ts";
import { useTitle } from "../base/title.ts";
import { Dialog } from "../components/dialog.tsx";
import { Foreign, Problem } from "../components/text.tsx";

interface LoginProps {
  /** Session of a user without access to the dashboard. */
  readonly session: Session;
  readonly onLogin: (session: Session) => void;
}

export function LoginPage(props: LoginProps) {
  useTitle("Log in");
  return (
    <main class="centre">
      <div class="login">
        <h1>Tandem</h1>
        <LoginForm {...props} />
      </div>
    </main>
  );
}

/** Login dialog shown over a page. The page keeps its content, and continues after the login. */
export function LoginDialog(props: LoginProps) {
  return (
    <Dialog title="The session has ended">
      <p>Log in to continue. The page and everything that you entered are kept.</p>
      <LoginForm {...props} />
    </Dialog>
  );
}

function LoginForm({ session, onLogin }: LoginProps) {
  const [error, setError] = useState<unknown>();
  const [refused, setRefused] = useState(session.name);
  const [isAsking, setIsAsking] = useState(false);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    setIsAsking(true);
    setError(undefined);
    try {
      const found = await logIn(String(form.get("name")), String(form.get("password")));
      if (found.reads) return onLogin(found);
      setRefused(found.name);
    } catch (failure) {
      if (!(failure instanceof RequestError)) throw failure;
      setError(failure);
    } finally {
      setIsAsking(false);
    }
  };
  return (
    <form onSubmit={(event) => void submit(event)}>
      {refused !== null && (
        <p class="problem" role="alert">
          <Foreign text={refused} /> is not a server admin and does not have the role
          _tandem_reader.
        </p>
      )}
      <label class="field">
        User
        <input name="name" required autoComplete="username" />
      </label>
      <label class="field">
        Password
        <input name="password" type="password" required autoComplete="current-password" />
      </label>
      <Problem error={error} />
      <button type="submit" class="primary" disabled={isAsking}>
        Log in
      </button>
    </form>
  );
}
