// A real identity provider on a free port of loopback: `node provider.mjs '{"devices": true}'`.
// Its pages accept any user with any password. Each start has new keys. The first line of its output is its address.
// `/revoked` is the number of access tokens that clients have revoked.
import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import Provider from 'oidc-provider';

const { devices, port = 0, groups = {} } = JSON.parse(process.argv[2]);
const DEVICE = 'urn:ietf:params:oauth:grant-type:device_code';
const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const kid = Math.random().toString(36).slice(2);

const server = createServer((request, response) => answer(request, response));
let answer;
server.listen(port, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [{
      client_id: 'tarmac',
      client_secret: 'the secret of the client',
      application_type: 'native',
      redirect_uris: ['http://127.0.0.1/callback'],
      response_types: ['code'],
      grant_types: devices ? ['authorization_code', DEVICE] : ['authorization_code'],
    }],
    cookies: { keys: ['of the tests'] },
    jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'RS256', kid }] },
    claims: { openid: ['sub'], profile: ['preferred_username'], groups: ['groups'] },
    scopes: ['openid', 'profile', 'groups'],
    features: { deviceFlow: { enabled: devices }, revocation: { enabled: true } },
    findAccount: (_context, id) => ({
      accountId: id,
      claims: () => ({ sub: id, preferred_username: id, groups: groups[id] ?? [] }),
    }),
  });
  let revoked = 0;
  provider.on('access_token.destroyed', () => { revoked += 1; });
  const pages = provider.callback();
  answer = (request, response) => (
    request.url === '/revoked' ? response.end(String(revoked)) : pages(request, response));
  console.log(issuer);
});
