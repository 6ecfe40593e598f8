// Drives the npm client; the lines that it reads and writes are in ../doc.go.
import { createInterface } from 'node:readline'
import { TicketBroker } from 'saro-ticketing'

const [addrs, token, ca] = process.argv.slice(2)
const broker = new TicketBroker({ addrs: addrs.split(','), token, tls: ca ? { ca } : 'off' })
const tickets = new Map()

const run = {
  async ready(id, seconds) {
    return `ready ${await broker.waitReady(Number(seconds))}`
  },
  async acquire(id, wait, lease, key) {
    const ticket = await broker.acquire(key, Number(wait), Number(lease))
    tickets.set(id, ticket)
    return `granted ${ticket.token}`
  },
  async release(id, grant) {
    return `released ${await tickets.get(grant).release()}`
  },
}

const input = createInterface({ input: process.stdin })
input.on('line', async (line) => {
  const [op, id, ...rest] = line.split(' ')
  const outcome = await run[op](id, ...rest).catch((err) => `failed ${err.kind ?? err}`)
  process.stdout.write(`${id} ${outcome}\n`)
})
input.on('close', () => process.exit(0))
